"""What every component and recipe promises."""
