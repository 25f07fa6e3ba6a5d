"""The pages of the returns desk."""
