//! The firmware of devices without kernels of their own.
#![cfg_attr(target_os = "none", no_std, no_main)]

fusee_engine_core::firmware!([]);
