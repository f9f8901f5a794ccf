"""The paper's tables and figures, run again: plans, cells, results, tables, figures."""
