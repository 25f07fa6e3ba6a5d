"""Approve many returns at once, over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from payments.batches import Decision, counts, items, open_batch
from payments.models import ApprovalBatch
from payments.serializers import BatchBody, BatchSerializer
from returns import money
from returns.api_access import person, require_on_record
from returns.api_errors import refusals
from returns.errors import Invalid, Missing
from returns.models import RefundOperation
from returns.permissions import require
from returns.queries import operations_named
from returns.request_body import read


class BatchesView(APIView):
    @extend_schema(
        operation_id="approve_batch",
        summary="Approve many returns at once",
        description="Writes the decisions down and answers at once; each is carried out by itself. "
        "Read the batch again to see what became of them.",
        request=BatchBody,
        responses={202: BatchSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request) -> Response:
        by = person(request)
        require_on_record("approve", by=by)
        body = read(BatchBody, request.data)
        decisions = _decisions(body["returns"])
        batch = open_batch(token=body["token"], by=by, decisions=decisions)
        return Response(_answer(batch), status=202)


class BatchView(APIView):
    @extend_schema(
        operation_id="approval_batch",
        summary="What became of the returns of a batch",
        responses={200: BatchSerializer, **refusals(404)},
    )
    def get(self, request: Request, token: UUID) -> Response:
        require(person(request), "approve")
        batch = ApprovalBatch.objects.filter(token=token).first()
        if batch is None:
            raise Missing("There is no such batch.", code="unknown_batch")
        return Response(_answer(batch))


def _decisions(wanted: list[dict[str, Any]]) -> list[Decision]:
    found = operations_named([one["name"] for one in wanted])
    return [_decision(one, found.get(one["name"])) for one in wanted]


def _decision(one: dict[str, Any], operation: RefundOperation | None) -> Decision:
    if operation is None:
        raise Missing(f"There is no return {one['name']}.", code="unknown_return")
    try:
        minor = money.parse(one["amount"], operation.currency)
    except money.NotMoney as error:
        raise Invalid({"returns": f"{one['name']}: {error}"}) from error
    return Decision(operation.operation_key, one["version"], minor)


def _answer(batch: ApprovalBatch) -> Any:
    shown = {
        "token": batch.token,
        "opened_at": batch.opened_at,
        "counts": counts(batch),
        "returns": items(batch),
    }
    return BatchSerializer(shown).data
