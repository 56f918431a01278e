"""Labs in which a training loop is put to an audit."""
