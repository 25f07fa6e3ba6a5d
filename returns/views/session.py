"""Signing in, and what a person chooses for themselves."""

from __future__ import annotations

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from returns.forms import SignInForm

THEME_COOKIE = "theme"
THEMES = ("auto", "light", "dark")
_YEAR_SECONDS = 365 * 24 * 60 * 60


class SignIn(LoginView):
    """Name and password; whoever is signed in already goes on to the desk."""

    template_name = "registration/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Light, dark, or as the system has it."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}):
        back = "/"
    response = redirect(back)
    chosen = request.POST.get("theme")
    if chosen in THEMES:
        response.set_cookie(
            THEME_COOKIE,
            chosen,
            max_age=_YEAR_SECONDS,
            httponly=True,
            samesite="Lax",
            secure=request.is_secure(),
        )
    return response
