"""Training programs bound by launches, and the ways to make fewer of them."""
