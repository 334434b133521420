"""What a trial of a patch has shown."""
