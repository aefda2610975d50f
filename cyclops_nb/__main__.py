"""Makes ``python -m cyclops_nb`` the same as ``cyclops-nb``, for where scripts are not on the path."""

from __future__ import annotations

import sys

from cyclops_nb.cli import main

if __name__ == "__main__":
    sys.exit(main())
