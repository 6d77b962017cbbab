"""What the Java library in sdk/android is tested against, written by Python."""
