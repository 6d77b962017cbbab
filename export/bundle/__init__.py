"""From a student to a bundle: files, parity with torch, golden texts."""
