"""The short course: DP-SGD in five scenes, played rather than read.

``scenes.py`` has the data of the scenes; ``course.js`` shows one scene at a time, and
each scene has a script of its own.
"""
