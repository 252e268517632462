"""``python -m elwood`` is the command ``elwood``."""

from elwood.app.cli import main

raise SystemExit(main())
