"""Approve a refund, read payments, and have the provider asked, over HTTP."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django_q.tasks import async_task
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from payments import handover
from payments.approval import Seen, approve
from payments.models import PaymentTask, ProviderEvent
from payments.serializers import (
    ApprovalBody,
    HandOverBody,
    PaymentDetailSerializer,
    PaymentSerializer,
    PaymentsQuery,
    ProviderEventSerializer,
    ProviderEventsQuery,
    UnpaidBody,
)
from payments.settlement import ask_again, declare_unpaid
from payments.webhooks import replay
from returns.api import RETURN_KEY, operation_answer
from returns.api_access import person, require_for_return, require_on_record
from returns.api_errors import refusals
from returns.errors import Missing
from returns.models import RefundOperation
from returns.paging import OldestFirst
from returns.permissions import require
from returns.request_body import read, read_query
from returns.serializers import OperationSerializer


class ApproveView(APIView):
    @extend_schema(
        operation_id="approve",
        summary="Approve a refund and reserve its money, in one transaction",
        description="The answer's state is reserved, or approved while a second approval is "
        "still needed. 409 insufficient_balance says what remains; nothing has changed then.",
        parameters=[RETURN_KEY],
        request=ApprovalBody,
        responses={200: OperationSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, key: str) -> Response:
        by = person(request)
        operation_key = require_for_return("approve", by=by, name=key)
        currency = RefundOperation.objects.get(operation_key=operation_key).currency
        body = read(ApprovalBody, request.data, currency=currency)
        parts = body.get("tenders")
        approve(
            operation_key=operation_key,
            by=by,
            amount_minor=body["amount"],
            tenders={part["tender"]: part["amount"] for part in parts} if parts else None,
            note=body["note"],
            seen=Seen(body.get("version"), body.get("seen_remaining")),
        )
        return Response(operation_answer(operation_key))


class PaymentsView(ListAPIView[PaymentTask]):
    serializer_class = PaymentSerializer
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[PaymentTask]:
        query = self.request.query_params
        return _payments().filter(**read_query(PaymentsQuery, query, but=OldestFirst.PARAMETERS))

    @extend_schema(
        operation_id="payments",
        summary="Payments, oldest first",
        parameters=[PaymentsQuery],
        responses={200: PaymentSerializer(many=True), **refusals(400)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        require(person(request), "view_payments")
        return super().get(request, *args, **kwargs)


class PaymentView(APIView):
    @extend_schema(
        operation_id="payment",
        summary="A payment and every call about it",
        responses={200: PaymentDetailSerializer, **refusals(404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        require(person(request), "view_payments")
        return Response(_payment_answer(_existing(pk)))


class AskProviderView(APIView):
    @extend_schema(
        operation_id="ask_provider",
        summary="Ask the provider now what became of a payment",
        description="Wakes a payment that was set aside as well. The answer comes later: read "
        "the payment again.",
        request=None,
        responses={200: PaymentDetailSerializer, **refusals(404)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("ask_provider", by=by)
        task = ask_again(task_id=_existing(pk).pk, by=by)
        async_task("payments.tasks.pay_operation", task.operation_id, cluster=settings.MONEY_QUEUE)
        return Response(_payment_answer(_existing(pk)))


class DeclareUnpaidView(APIView):
    @extend_schema(
        operation_id="declare_unpaid",
        summary="Decide that a payment that was set aside has certainly not been made",
        description="Only where a look-up agrees, made when nothing could be under way any more.",
        request=UnpaidBody,
        responses={200: PaymentDetailSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("declare_unpaid", by=by)
        body = read(UnpaidBody, request.data)
        declare_unpaid(task_id=_existing(pk).pk, by=by, reason=body["reason"])
        return Response(_payment_answer(_existing(pk)))


class HandOverView(APIView):
    @extend_schema(
        operation_id="hand_over",
        summary="Hand money over: start, then confirm with its reference or abandon with a reason",
        description="Only for payments that a person makes. Between start and confirm the money "
        "may or may not have left, and nobody else can start.",
        request=HandOverBody,
        responses={200: PaymentDetailSerializer, **refusals(400, 404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        by = person(request)
        require_on_record("hand_over", by=by)
        body = read(HandOverBody, request.data)
        task_id = _existing(pk).pk
        if body["step"] == "start":
            handover.start(task_id=task_id, by=by)
        elif body["step"] == "confirm":
            handover.confirm(task_id=task_id, by=by, reference=body["reference"])
        else:
            handover.abandon(task_id=task_id, by=by, reason=body["reason"])
        return Response(_payment_answer(_existing(pk)))


class ProviderEventsView(ListAPIView[ProviderEvent]):
    serializer_class = ProviderEventSerializer
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[ProviderEvent]:
        query = self.request.query_params
        wanted = read_query(ProviderEventsQuery, query, but=OldestFirst.PARAMETERS)
        return ProviderEvent.objects.filter(**wanted)

    @extend_schema(
        operation_id="provider_events",
        summary="What providers have told us, oldest first",
        parameters=[ProviderEventsQuery],
        responses={200: ProviderEventSerializer(many=True), **refusals(400)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        require(person(request), "replay_event")
        return super().get(request, *args, **kwargs)


class ReplayView(APIView):
    @extend_schema(
        operation_id="replay_event",
        summary="Read a stored event again and apply it",
        description="For events that were not understood or wait for their payment. An event that "
        "has been applied or ignored stays as it is.",
        request=None,
        responses={200: ProviderEventSerializer, **refusals(404, 409)},
    )
    def post(self, request: Request, pk: int) -> Response:
        return Response(ProviderEventSerializer(replay(event_id=pk, by=person(request))).data)


def _payments() -> QuerySet[PaymentTask]:
    return PaymentTask.objects.select_related("operation__order", "tender")


def _existing(pk: int) -> PaymentTask:
    task = _payments().prefetch_related("attempts").filter(pk=pk).first()
    if task is None:
        raise Missing(f"There is no payment {pk}.", code="unknown_payment")
    return task


def _payment_answer(task: PaymentTask) -> dict[str, Any]:
    return dict(PaymentDetailSerializer(task).data)
