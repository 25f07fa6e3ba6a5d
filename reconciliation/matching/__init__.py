"""Three sides of one refund: what we paid, what the provider says, what the ERP credited.

Everything is matched by reference, never by amount alone, in a few set-based statements over
temporary tables of the run's transaction.

    scope      which payments, operations, lines and entries a run looks at
    findings   what does not agree, with the figures of both sides
    totals     the same figures per day and currency, so that findings explain every cent
"""
