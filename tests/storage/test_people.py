"""People, tokens and logins: secrets work once shown, and end when they should."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from kernelderby.core.errors import NotFound, RequestError
from kernelderby.storage import people
from kernelderby.storage.database import Database
from kernelderby.storage.models import Token, WebSession


def test_a_token_opens_until_it_is_revoked(database: Database) -> None:
    with database.begin() as session:
        ada = people.create(session, "ada")
        token = people.new_token(session, ada.id, "laptop", ["submit"])
    with database.begin() as session:
        found = people.by_token(session, token)
        assert found is not None and (found.name, found.scopes) == ("ada", ("submit",))
        assert people.by_token(session, token + "x") is None
        people.revoke_token(session, ada.id, people.tokens_of(session, ada.id)[0].id)
    with database.read() as session:
        assert people.by_token(session, token) is None
        assert people.tokens_of(session, ada.id)[0].revoked_at is not None


def test_no_secret_is_stored(database: Database) -> None:
    with database.begin() as session:
        ada = people.create(session, "ada")
        secrets = {people.new_token(session, ada.id, "laptop"), people.new_login_code(session, ada.id)}
    with database.read() as session:
        stored = set(session.scalars(select(Token.hash))) | set(session.scalars(select(WebSession.hash)))
    assert len(stored) == 2 and not any(s in kept for s in secrets for kept in stored)


def test_nobody_revokes_the_token_of_another(database: Database) -> None:
    with database.begin() as session:
        ada, bob = people.create(session, "ada"), people.create(session, "bob")
        people.new_token(session, ada.id, "laptop")
        with pytest.raises(NotFound):
            people.revoke_token(session, bob.id, people.tokens_of(session, ada.id)[0].id)


def test_a_login_code_works_once_and_its_cookie_until_logged_out(database: Database) -> None:
    with database.begin() as session:
        ada = people.create(session, "ada")
        code = people.new_login_code(session, ada.id)
        cookie = people.redeem_code(session, code)
        assert cookie is not None
        assert people.redeem_code(session, code) is None
        assert people.by_cookie(session, code) is None
        assert people.by_cookie(session, cookie) == ada
        people.end_session(session, cookie)
        assert people.by_cookie(session, cookie) is None


def test_codes_and_cookies_grow_old(database: Database) -> None:
    with database.begin() as session:
        ada = people.create(session, "ada")
        code, cookie = people.new_login_code(session, ada.id), people.redeem_code(session, people.new_login_code(session, ada.id))
        session.execute(update(WebSession).values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
        assert people.redeem_code(session, code) is None
        assert people.by_cookie(session, cookie or "") is None


@pytest.mark.parametrize(("name", "role"), [("", "contestant"), ("  \n", "contestant"), ("ada", "contestant"), ("bob", "king")])
def test_names_are_unique_and_roles_known(database: Database, name: str, role: str) -> None:
    with database.begin() as session:
        people.create(session, "ada")
        with pytest.raises(RequestError):
            people.create(session, name, role)


def test_names_and_secrets_may_hold_anything(database: Database) -> None:
    with database.begin() as session:
        assert "\0" not in people.create(session, "a\0</script>\ud800").name
        assert people.by_token(session, "\0\ud800") is None
        assert people.redeem_code(session, "\0") is None
        assert people.by_name(session, "\0") is None


def test_the_local_organizer_is_made_once(database: Database) -> None:
    with database.begin() as session:
        first = people.local_organizer(session)
    with database.begin() as session:
        assert people.local_organizer(session) == first
        assert first.is_organizer


def test_a_token_without_the_scope_does_not_organize(database: Database) -> None:
    with database.begin() as session:
        token = people.new_token(session, people.local_organizer(session).id, "ci", ["submit", "read"])
        found = people.by_token(session, token)
        assert found is not None and not found.is_organizer
        with pytest.raises(RequestError, match="scope"):
            people.new_token(session, found.id, "x", ["everything"])
        with pytest.raises(NotFound):
            people.new_token(session, 999, "x")
