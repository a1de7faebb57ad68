"""The values that flow through niceeval, and the interfaces that guests implement. No I/O, no clock, no paths."""
