"""``python -m elwood`` is the command ``elwood``."""

from elwood.cli import main

raise SystemExit(main())
