"""SQLite files of the installation: permissions, disk reserve, use on one machine."""
