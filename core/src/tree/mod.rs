//! Persistent lists and maps whose shape follows from their content alone.
