"""The pages of this app."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from returns.views.decisions import inspect_goods, reject_return, withdraw_return
from returns.views.desk import desk
from returns.views.lists import returns
from returns.views.operations import live, operation
from returns.views.orders import order, take_in
from returns.views.session import SignIn, theme

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="desk"), name="home"),
    path("sign-in/", SignIn.as_view(), name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("theme/", theme, name="theme"),
    path("desk/", desk, name="desk"),
    path("orders/<str:number>/", order, name="order"),
    path("orders/<str:number>/take-in/", take_in, name="take_in"),
    path("returns/", returns, name="returns"),
    path("returns/<str:reference>/", operation, name="return"),
    path("returns/<str:reference>/live/", live, name="live"),
    path("returns/<str:reference>/inspect/", inspect_goods, name="inspect"),
    path("returns/<str:reference>/reject/", reject_return, name="reject"),
    path("returns/<str:reference>/withdraw/", withdraw_return, name="withdraw"),
]
