"""PyTorch's own databases of operators, modules and optimizers, one module each, for `check_databases.py`.

Each module has `database()`, what there is by name, and `examine(name, most)`, the verdict on one of them.
"""
