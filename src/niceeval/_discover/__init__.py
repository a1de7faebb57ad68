"""From files to values: what `define_*` builds, how a project is loaded, and what a selector means."""
