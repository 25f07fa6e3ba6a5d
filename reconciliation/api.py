"""Read what a person must close, and close it, over HTTP."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reconciliation.mismatches import resolve
from reconciliation.models import Mismatch
from reconciliation.serializers import MismatchesQuery, MismatchSerializer, ResolutionBody
from returns.api_access import key_of_return, person, require_on_record
from returns.api_errors import refusals
from returns.paging import OldestFirst
from returns.permissions import require
from returns.request_body import read, read_query


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
            operation_key=key_of_return(body["operation"]) if "operation" in body else None,
        )
        return Response(MismatchSerializer(_mismatches().get(pk=pk)).data)


def _mismatches() -> QuerySet[Mismatch]:
    return Mismatch.objects.select_related("operation__order", "assignee", "resolved_by")
