"""What the doctor looks at: each module yields its findings, each with what to do about it."""
