"""One module per revision; revisions are four digits and count up."""
