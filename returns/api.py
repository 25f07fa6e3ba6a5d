"""Orders in, returns in, and what the desk does with them, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from returns import closing, inspection, queries
from returns.api_access import key_of_return, person, require_for_return, require_on_record
from returns.api_errors import refusals
from returns.bodies import (
    InspectionBody,
    OrderBody,
    RejectionBody,
    ReturnBody,
    ReturnsQuery,
    WithdrawalBody,
)
from returns.errors import Missing, OrderChanged
from returns.inspection import UnitFound
from returns.intake import Taken, open_or_join
from returns.models import OrderLine, RefundOperation
from returns.order_body import read_order
from returns.order_serializers import OrderSerializer
from returns.ordering import Confirmed, clean_number, confirm_order
from returns.paging import OldestFirst
from returns.permissions import require
from returns.request_body import read, read_query
from returns.return_request import Goodwill, Item, ReturnRequest
from returns.serializers import (
    OperationDetailSerializer,
    OperationSerializer,
    OperationSummarySerializer,
    TakenSerializer,
)

if TYPE_CHECKING:
    from returns.queries import OperationRow

RETURN_KEY = OpenApiParameter(
    "key", str, OpenApiParameter.PATH, description="The operation's key or its reference (R-2841)."
)


class OrderView(APIView):
    @extend_schema(
        operation_id="order",
        summary="An order with its balances, and who claims which unit",
        responses={200: OrderSerializer, **refusals(404)},
    )
    def get(self, request: Request, number: str) -> Response:
        require(person(request), "view")
        return Response(_order_answer(clean_number(number)))

    @extend_schema(
        operation_id="confirm_order",
        summary="Create an order, or confirm that it stands as given",
        request=OrderBody,
        responses={201: OrderSerializer, 200: OrderSerializer, **refusals(400, 409)},
    )
    def put(self, request: Request, number: str) -> Response:
        by, number = person(request), clean_number(number)
        require_on_record("confirm_order", by=by)
        facts = read_order(number, request.data)
        try:
            order, confirmed = confirm_order(number=number, facts=facts, by=by)
        except OrderChanged as error:
            if "changed" in error.facts:
                # The names are enough: the figures are minor units, and the caller has both.
                error.facts["changed"] = sorted(error.facts["changed"])
            raise
        created = confirmed is Confirmed.CREATED
        return Response(
            _order_answer(order.number),
            status=status.HTTP_201_CREATED if created else status.HTTP_200_OK,
        )


class ReturnsView(ListAPIView[RefundOperation]):
    serializer_class = OperationSummarySerializer
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[OperationRow]:
        query = self.request.query_params
        filters = read_query(ReturnsQuery, query, but=OldestFirst.PARAMETERS)
        filters["order"] = clean_number(filters.get("order", ""))
        return queries.operations(**filters)

    @extend_schema(
        operation_id="returns",
        summary="Returns, oldest first",
        parameters=[ReturnsQuery],
        responses={200: OperationSummarySerializer(many=True), **refusals(400)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        require(person(request), "view")
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="take_in",
        summary="Open a return, or join the one for the same goods",
        description="200 when the goods were being returned already (joined is true), or when "
        "the same message was delivered before.",
        request=ReturnBody,
        responses={201: TakenSerializer, 200: TakenSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request) -> Response:
        by = person(request)
        require_on_record("take_in", by=by)
        taken = open_or_join(request=_return_request(read(ReturnBody, request.data)), by=by)
        return Response(
            _taken_answer(taken),
            status=status.HTTP_201_CREATED if taken.created else status.HTTP_200_OK,
        )


class ReturnView(APIView):
    @extend_schema(
        operation_id="return",
        summary="A return: claims, messages, approvals, payments, posting, history",
        parameters=[RETURN_KEY],
        responses={200: OperationDetailSerializer, **refusals(404)},
    )
    def get(self, request: Request, key: str) -> Response:
        require(person(request), "view")
        operation = queries.operation_by_key(key_of_return(key))
        return Response(OperationDetailSerializer(operation).data)


class InspectView(APIView):
    @extend_schema(
        operation_id="inspect",
        summary="Record what was found about every unit",
        parameters=[RETURN_KEY],
        request=InspectionBody,
        responses={200: OperationSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, key: str) -> Response:
        by = person(request)
        operation_key = require_for_return("inspect", by=by, name=key)
        body = read(InspectionBody, request.data)
        inspection.inspect(
            operation_key=operation_key,
            by=by,
            accepted=[UnitFound(**found) for found in body["accepted"]],
            rejected=[UnitFound(**found) for found in body["rejected"]],
            note=body["note"],
            seen_version=body.get("version"),
        )
        return Response(operation_answer(operation_key))


class RejectView(APIView):
    @extend_schema(
        operation_id="reject",
        summary="Reject a return; its goods may be returned again",
        parameters=[RETURN_KEY],
        request=RejectionBody,
        responses={200: OperationSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, key: str) -> Response:
        by = person(request)
        operation_key = require_for_return("reject", by=by, name=key)
        body = read(RejectionBody, request.data)
        closing.reject(
            operation_key=operation_key,
            by=by,
            reason=body["reason"],
            seen_version=body.get("version"),
        )
        return Response(operation_answer(operation_key))


class WithdrawView(APIView):
    @extend_schema(
        operation_id="withdraw",
        summary="Withdraw a return; its goods may be returned again",
        parameters=[RETURN_KEY],
        request=WithdrawalBody,
        responses={200: OperationSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, key: str) -> Response:
        by = person(request)
        operation_key = require_for_return("withdraw", by=by, name=key)
        body = read(WithdrawalBody, request.data)
        closing.withdraw(
            operation_key=operation_key,
            by=by,
            reason=body["reason"],
            seen_version=body.get("version"),
        )
        return Response(operation_answer(operation_key))


class UnknownAddressView(APIView):
    @extend_schema(exclude=True)
    def get(self, request: Request, rest: str) -> Response:
        raise Missing(f"There is no {request.path}.")

    post = put = patch = delete = get


def operation_answer(key: UUID) -> dict[str, Any]:
    """Where a return stands now, as JSON."""
    operation = queries.operations_with_claims().get(operation_key=key)
    return dict(OperationSerializer(operation).data)


def _order_answer(number: str) -> dict[str, Any]:
    order = queries.order_by_number(number)
    if order is None:
        raise Missing(f"There is no order {number}.", code="unknown_order", order=number)
    return dict(OrderSerializer(order, context={"currency": order.currency}).data)


def _taken_answer(taken: Taken) -> dict[str, Any]:
    lines = Prefetch("order__lines", OrderLine.objects.order_by("pk"))
    row = queries.operations_with_claims().prefetch_related(lines).get(pk=taken.operation.pk)
    free = {entry.line.line_id: entry.free for entry in queries.units_of(row.order)}
    return {**OperationSerializer(row).data, "joined": taken.joined, "free_units": free}


def _return_request(body: dict[str, Any]) -> ReturnRequest:
    items = tuple(
        Item(item["line"], item.get("quantity"), tuple(item.get("units", ())))
        for item in body["items"]
    )
    goodwill = Goodwill(**body["goodwill"]) if body["goodwill"] else None
    return ReturnRequest(
        **{
            **body,
            "order": clean_number(body["order"]),
            "items": items,
            "goodwill": goodwill,
        }
    )
