"""Where sweeps and profiles are kept: records outside, a database inside. Importing this loads no SQLAlchemy."""
