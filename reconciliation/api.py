"""Read what a person must close, and close it, over HTTP."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reconciliation.models import ErpPosting, Mismatch
from reconciliation.posting import try_again
from reconciliation.resolving import confirm, resolve, turn_down
from reconciliation.serializers import (
    ConfirmationBody,
    MismatchesQuery,
    MismatchSerializer,
    ResolutionBody,
    TurningDownBody,
)
from returns.api import RETURN_KEY, operation_answer
from returns.api_access import key_of_return, person, require_for_return, require_on_record
from returns.api_errors import refusals
from returns.errors import Missing
from returns.paging import OldestFirst
from returns.permissions import require
from returns.request_body import read, read_query
from returns.serializers import OperationSerializer


class MismatchesView(ListAPIView[Mismatch]):
    serializer_class = MismatchSerializer
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[Mismatch]:
        query = self.request.query_params
        return _mismatches().filter(
            **read_query(MismatchesQuery, query, but=OldestFirst.PARAMETERS)
        )

    @extend_schema(
        operation_id="mismatches",
        summary="Mismatches, oldest first",
        parameters=[MismatchesQuery],
        responses={200: MismatchSerializer(many=True), **refusals(400)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        require(person(request), "view_mismatches")
        return super().get(request, *args, **kwargs)


class ResolveView(APIView):
    @extend_schema(
        operation_id="resolve",
        summary="Close a mismatch with a reason; no money moves by it",
        description="Where more is at stake than one person may decide on, it stays open with "
        "`proposed_by` and `proposed_at` until somebody else confirms it.",
        request=ResolutionBody,
        responses={200: MismatchSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("resolve_mismatch", by=by)
        body = read(ResolutionBody, request.data)
        resolve(
            mismatch_id=pk,
            by=by,
            resolution=body["resolution"],
            reason=body["reason"],
            evidence=body.get("evidence", ""),
            operation_key=key_of_return(body["operation"]) if "operation" in body else None,
        )
        return Response(MismatchSerializer(_mismatches().get(pk=pk)).data)


class ConfirmView(APIView):
    @extend_schema(
        operation_id="confirm_resolution",
        summary="Agree, as a second person, with how a mismatch is to be closed",
        request=ConfirmationBody,
        responses={200: MismatchSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("resolve_mismatch", by=by)
        body = read(ConfirmationBody, request.data)
        confirm(mismatch_id=pk, by=by, proposed_at=body["proposed_at"])
        return Response(MismatchSerializer(_mismatches().get(pk=pk)).data)


class TurnDownView(APIView):
    @extend_schema(
        operation_id="turn_down_resolution",
        summary="Disagree, as a second person, with how a mismatch is to be closed",
        request=TurningDownBody,
        responses={200: MismatchSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("resolve_mismatch", by=by)
        body = read(TurningDownBody, request.data)
        turn_down(mismatch_id=pk, by=by, reason=body["reason"])
        return Response(MismatchSerializer(_mismatches().get(pk=pk)).data)


class PostAgainView(APIView):
    @extend_schema(
        operation_id="post_again",
        summary="Have the ERP asked again about a credit that it has refused",
        description="Once the cause is mended. The answer comes later: read the return again. "
        "A credit that is not set aside is left as it is.",
        parameters=[RETURN_KEY],
        request=None,
        responses={200: OperationSerializer, **refusals(404)},
    )
    def post(self, request: Request, key: str) -> Response:
        by = person(request)
        operation_key = require_for_return("resolve_mismatch", by=by, name=key)
        posting = ErpPosting.objects.filter(operation__operation_key=operation_key).first()
        if posting is None:
            raise Missing("Nothing is to be posted for this return.", code="unknown_posting")
        try_again(posting_id=posting.pk, by=by)
        return Response(operation_answer(operation_key))


def _mismatches() -> QuerySet[Mismatch]:
    return Mismatch.objects.select_related(
        "operation__order", "assignee", "proposed_by", "resolved_by"
    )
