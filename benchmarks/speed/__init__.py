"""How long one fit, search or solve takes, alone and beside other libraries."""
