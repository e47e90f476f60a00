"""``python -m cdplugin``: the command line."""

import sys

from cdplugin.cli import main

sys.exit(main())
