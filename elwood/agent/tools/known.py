"""Ids of the tools that belong to no feature, by name.  Imports nothing."""

TALK = {"send_message": "talk.message.send", "ask_user": "talk.question.ask"}
