"""What is said of a Study, once, for every writer: sentences and tables, without their form."""
