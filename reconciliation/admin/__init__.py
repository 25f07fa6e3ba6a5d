"""The admin of this app: the queue of mismatches, and lists to look at."""

from reconciliation.admin.mismatches import MismatchAdmin
from reconciliation.admin.postings import ErpPostingAdmin

__all__ = ["ErpPostingAdmin", "MismatchAdmin"]
