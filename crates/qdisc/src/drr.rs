//! `Drr`: deficit round robin among classes (Shreedhar and Varghese 1996; `tc`'s `drr`).
