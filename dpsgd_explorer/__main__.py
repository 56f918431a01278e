"""``python -m dpsgd_explorer``: see :mod:`dpsgd_explorer.cli.main`."""

import sys

from dpsgd_explorer.cli.main import main

sys.exit(main())
