"""What two versions of a program have shown against each other, and what a search among revisions has found."""
