"""One folder for each widget, an interactive figure.

``widget.py`` has the record ``WIDGET``: picture, data, controls and starting values;
``widget.html`` has the controls, and ``widget.js`` the function
``mount(element, data)``.  Some widgets also have ``widget.css``, their style, and
``recorded.json``, data that ``record.py`` recorded.

Publishing puts scripts and styles below ``js/widgets/`` of the static files.  A script
imports from ``static/js`` by its path in a checkout, so that Node finds it too.
"""
