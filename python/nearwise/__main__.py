"""`python -m nearwise` is the `nearwise` command."""

import sys

from nearwise.cli import main

sys.exit(main())
