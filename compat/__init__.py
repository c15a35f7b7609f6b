"""Other people's tests and documents, run here: what passes, what is refused by name, what fails, and why."""
