"""Tables and pictures made from records alone: a module per experiment."""
