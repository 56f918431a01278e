"""One folder for each widget: a picture that one can touch.

``widget.py`` has the record ``WIDGET``: picture, data, controls and starting values;
``widget.html`` the controls, ``widget.js`` the function ``mount(element, data)``, and
``widget.css`` the style, where there is any of its own.
"""
