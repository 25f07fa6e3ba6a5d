"""What the books queue calls. A message is a nudge; the posting rows say what is due."""

from __future__ import annotations

from collections.abc import Sequence

import pghistory

from reconciliation import dispatch
from reconciliation.models import ErpPosting


def post_operations(operation_ids: Sequence[int]) -> int:
    """Take the postings of these operations as far as they go now."""
    rows = ErpPosting.objects.filter(operation_id__in=operation_ids).order_by("pk")
    with pghistory.context(task="post_operations"):
        return sum(dispatch.post(pk) for pk in rows.values_list("pk", flat=True))
