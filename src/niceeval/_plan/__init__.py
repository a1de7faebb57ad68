"""From a project and a command line to the attempts of one run: pure, frozen before anything starts."""
