//! `Blue`: a drop probability that rises when the queue overflows and falls when it runs empty (Feng et al. 2002).
