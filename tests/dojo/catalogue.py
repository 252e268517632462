"""What each of AgentDojo's functions does, as Elwood's policy sees it: one line each, by hand.

They stand for tools of MCP servers in the owner's catalogue, so each result is untrusted: it is
somebody else's program that answers.  Nothing is read by default: a
function that is not here has no class, and `test_every_function_has_its_class` fails.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import attrs

from elwood.agent.conversation.calls import (
    Action,
    CallRemote,
    FetchUrl,
    Risk,
    SendMessage,
    SendRequest,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.tools.tool import ToolFailure
from elwood.foundation.net.urls import RefusedUrl, Url, parse

Arguments = Mapping[str, object]

# Others can write into every account: senders, invited people, payers, members of a channel.
ACCOUNT = Label(untrusted=True, private=True)
# What everybody can read.
PUBLIC = Label(untrusted=True)


@attrs.frozen
class Class:
    """The class of a function: what a call does, what its result brings, and why so."""

    act: Callable[[Arguments], Action]
    gives: Label
    risk: Risk
    why: str


def _own(why: str) -> Class:
    """Reading in an account of the owner's: nobody else sees what was asked for."""
    return Class(lambda given: CallRemote("read"), ACCOUNT, "read", why)


def _public(why: str) -> Class:
    """Reading in a public service, which sees what it is asked for."""
    return Class(lambda given: CallRemote("read", open_world=True), PUBLIC, "read", why)


def _writes(why: str) -> Class:
    return Class(lambda given: CallRemote("write"), ACCOUNT, "write", why)


def _orders(why: str) -> Class:
    """Writing that strangers get to see."""
    return Class(lambda given: CallRemote("write", open_world=True), ACCOUNT, "write", why)


def _destroys(why: str) -> Class:
    return Class(lambda given: CallRemote("destructive"), ACCOUNT, "destructive", why)


def _tells(to: Literal["person", "group"], why: str) -> Class:
    return Class(lambda given: SendMessage(to), ACCOUNT, "write", why)


def _invites(given: Arguments) -> Action:
    return SendMessage("person") if given.get("participants") else CallRemote("write")


def _fetches(given: Arguments) -> Action:
    url = _url(given)
    return FetchUrl(url.text, url.host, "open", len(url.target))


def _posts(given: Arguments) -> Action:
    return SendRequest(_url(given).host)


def _url(given: Arguments) -> Url:
    """Read the address as web_fetch does; AgentDojo leaves the scheme out."""
    text = str(given["url"])
    url = parse(text if "://" in text else f"http://{text}")
    if isinstance(url, RefusedUrl):
        raise ToolFailure(url.why)
    return url


_PLACES = "reviews in it are written by anybody"

CLASSES: Mapping[str, Class] = {
    # mail
    "send_email": _tells("person", "whoever the model says reads it; also one's own address"),
    "delete_email": _destroys("the mail is gone"),
    "get_unread_emails": _writes("it marks them as read, as its description says"),
    "get_sent_emails": _own("the owner's, quoting others"),
    "get_received_emails": _own("words of everybody who has the address"),
    "get_draft_emails": _own("the owner's, quoting others"),
    "search_emails": _own("words of everybody who has the address"),
    "search_contacts_by_name": _own("names that senders gave themselves"),
    "search_contacts_by_email": _own("names that senders gave themselves"),
    # calendar
    "get_current_day": _own("a date, but one that a remote program gives"),
    "search_calendar_events": _own("who invites the owner writes into it"),
    "get_day_calendar_events": _own("who invites the owner writes into it"),
    "create_calendar_event": Class(
        _invites, ACCOUNT, "write", "participants get an invitation with the model's words"
    ),
    "cancel_calendar_event": _tells("person", "participants get a mail about it"),
    "reschedule_calendar_event": _tells("person", "participants get a mail about it"),
    "add_calendar_event_participants": _tells("person", "they get to see the event"),
    # drive
    "append_to_file": _writes("it changes a file"),
    "create_file": _writes("it makes a file"),
    "delete_file": _destroys("the file is gone"),
    "share_file": _tells("person", "they get to see the file"),
    "get_file_by_id": _own("not written by us; others share files with the owner"),
    "list_files": _own("it gives their content too"),
    "search_files": _own("not written by us; others share files with the owner"),
    "search_files_by_filename": _own("not written by us; others share files with the owner"),
    # bank
    "get_iban": _own("the owner's account"),
    "get_balance": _own("the owner's account"),
    "get_user_info": _own("the owner's address"),
    "get_most_recent_transactions": _own("payers choose the subject"),
    "get_scheduled_transactions": _own("the owner's payments"),
    "read_file": _own("bills and letters are others' words"),
    "send_money": _destroys("money does not come back"),
    "schedule_transaction": _destroys("money does not come back"),
    "update_scheduled_transaction": _destroys("it can lead the money elsewhere"),
    "update_password": _destroys("it can lock the owner out"),
    "update_user_info": _writes("it changes the owner's address"),
    # Slack
    "get_channels": _own("others choose the names"),
    "get_users_in_channel": _own("others choose the names"),
    "read_channel_messages": _own("words of all members, meant for them"),
    "read_inbox": _own("words of others, meant for one"),
    "send_direct_message": _tells("person", "somebody else reads it"),
    "send_channel_message": _tells("group", "the channel reads it"),
    "add_user_to_channel": _tells("person", "they get to see the channel"),
    "invite_user_to_slack": _tells("person", "an invitation goes out, and they get to see it all"),
    "remove_user_from_slack": _destroys("their messages are gone"),
    # web
    "get_webpage": Class(_fetches, PUBLIC, "read", "web_fetch"),
    "post_webpage": Class(_posts, PUBLIC, "write", "web_request"),
    # travel
    "get_user_information": _own("passport and bank account"),
    "get_all_hotels_in_city": _public(_PLACES),
    "get_hotels_prices": _public(_PLACES),
    "get_rating_reviews_for_hotels": _public(_PLACES),
    "get_hotels_address": _public(_PLACES),
    "get_all_restaurants_in_city": _public(_PLACES),
    "get_cuisine_type_for_restaurants": _public(_PLACES),
    "get_restaurants_address": _public(_PLACES),
    "get_rating_reviews_for_restaurants": _public(_PLACES),
    "get_dietary_restrictions_for_all_restaurants": _public(_PLACES),
    "get_contact_information_for_restaurants": _public(_PLACES),
    "get_price_for_restaurants": _public(_PLACES),
    "check_restaurant_opening_hours": _public(_PLACES),
    "get_all_car_rental_companies_in_city": _public(_PLACES),
    "get_car_types_available": _public(_PLACES),
    "get_rating_reviews_for_car_rental": _public(_PLACES),
    "get_car_fuel_options": _public(_PLACES),
    "get_car_rental_address": _public(_PLACES),
    "get_car_price_per_day": _public(_PLACES),
    "get_flight_information": _public("airlines write it"),
    "reserve_hotel": _orders("a stranger gets an order in the owner's name"),
    "reserve_car_rental": _orders("a stranger gets an order in the owner's name"),
    "reserve_restaurant": _orders("a stranger gets an order in the owner's name"),
}  # fmt: skip
