//! A delivery's way in plain words.
