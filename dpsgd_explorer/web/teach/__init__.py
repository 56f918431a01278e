"""Pages for teachers: lesson plans, a class of 90 minutes, exercises, built links."""
