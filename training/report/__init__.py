"""What a training leaves for people to read: plots, a page and tables, made of plain data by plain functions."""
