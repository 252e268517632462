"""The ids of the tools that belong to no feature, by their names.  Imports nothing."""

TALK = {"send_message": "talk.message.send", "ask_user": "talk.question.ask"}
