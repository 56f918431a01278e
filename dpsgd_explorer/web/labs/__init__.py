"""One folder for each lab.

``page.py`` has the page's view, and ``page.js`` and ``page.css`` its script and style;
its template is in ``templates/labs``.  A lab that launches runs has the view of their
kind in ``view.py``.  Some labs also have ``recorded.json``, figures that ``record.py``
recorded.

Publishing puts scripts and styles below ``js/labs/`` of the static files.  A script
imports from ``static/js`` by its path in a checkout, so that Node finds it too.
"""
