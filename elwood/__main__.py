"""``python -m elwood`` is the command ``elwood``."""

from elwood.app.cli.commands import main

raise SystemExit(main())
