"""``python -m cdplugin``: the command line."""

import sys

from cdplugin.cli.main import main

sys.exit(main())
