"""Forms of a program that can be split where the original cannot."""
